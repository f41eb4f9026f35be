// Package gen holds what buf generates from proto/; this file alone is written
// by hand, for its embed directive.
package gen

import _ "embed"

// Descriptors is the FileDescriptorSet of proto/ with its comments, which the
// generated code leaves out.
//
//go:embed descriptors.binpb
var Descriptors []byte
