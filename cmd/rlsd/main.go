// Command rlsd decides rate limits for Envoy and for services: it is asked
// over gRPC about a request and answers whether to allow it, what remains, and
// when to come back.
package main

import (
	"context"
	"os"
)

// version is set when building, with -ldflags "-X main.version=...".
var version = "dev"

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
