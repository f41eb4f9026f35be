package file

import (
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// maxMerged is the most fields that the merge keys of a document add to its
// mappings.
const maxMerged = 100_000

// A builder turns the syntax tree of one document into values.
type builder struct {
	*report

	before  int               // lines of the file before the document
	anchors map[string]*value // nil while what is anchored is being read
	merged  int               // fields so far
}

func (b *builder) value(n ast.Node, path string) *value {
	v := &value{path: path}
	if n == nil {
		v.kind = null
		return v
	}
	v.at = b.position(n.GetToken())
	switch n := n.(type) {
	case *ast.NullNode:
		v.kind = null
	case *ast.StringNode:
		v.kind, v.text, v.plain = scalar, n.Value, n.Token.Type == token.StringType
	case *ast.LiteralNode:
		v.kind, v.text = scalar, n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		v.kind, v.text, v.plain = scalar, n.GetToken().Value, true
	case *ast.SequenceNode:
		b.list(v, n)
	case *ast.MappingNode:
		b.mapping(v, n)
	case *ast.AnchorNode:
		return b.anchor(n, path)
	case *ast.AliasNode:
		return b.alias(v, n)
	case *ast.TagNode:
		return b.tag(n, path)
	default:
		b.add(v.at, path, "%s is not supported here", n.Type())
	}
	return v
}

func (b *builder) position(t *token.Token) position {
	at := positionOf(t)
	at.line += b.before
	return at
}

func (b *builder) list(v *value, n *ast.SequenceNode) {
	v.kind = list
	for i, item := range n.Values {
		v.items = append(v.items, b.value(item, index(v.path, i)))
	}
}

func (b *builder) mapping(v *value, n *ast.MappingNode) {
	v.kind = mapping
	if !n.IsFlowStyle && len(n.Values) > 0 {
		v.at = b.position(n.Values[0].Key.GetToken())
	}
	var merges []field
	seen := map[string]position{}
	for _, entry := range n.Values {
		key, ok := b.key(entry.Key, v.path)
		key.value = b.value(entry.Value, join(v.path, key.name))
		if !ok {
			continue
		}
		if first, again := seen[key.name]; again {
			b.add(key.at, join(v.path, key.name), "duplicate key %s, first given on line %d", quote(key.name), first.line)
			continue
		}
		seen[key.name] = key.at
		if entry.Key.IsMergeKey() {
			merges = append(merges, key)
		} else {
			v.fields = append(v.fields, key)
		}
	}
	for _, key := range merges {
		b.merge(v, key, seen)
	}
}

// key returns a field without value. It reports false if its key is no scalar.
func (b *builder) key(n ast.MapKeyNode, path string) (field, bool) {
	var node ast.Node = n
	if complex, ok := n.(*ast.MappingKeyNode); ok {
		node = complex.Value
	}
	at := b.position(n.GetToken())
	if n.IsMergeKey() {
		return field{name: n.GetToken().Value, at: at}, true
	}
	v := b.value(node, path)
	switch v.kind {
	case broken:
		return field{}, false
	case scalar:
		return field{name: v.text, at: at}, true
	default:
		b.add(at, path, "a key must be a name, this one is %s", v)
		return field{}, false
	}
}

// merge adds the fields of what a merge key names, one mapping or several.
func (b *builder) merge(v *value, key field, seen map[string]position) {
	sources := []*value{key.value}
	if key.value.kind == list {
		sources = key.value.items
	}
	for _, source := range sources {
		switch source.kind {
		case broken:
		case mapping:
			b.mergeFields(v, source.fields, seen)
		default:
			b.add(key.at, join(v.path, key.name), "<< takes a mapping or a list of mappings, not %s", source)
		}
	}
}

// mergeFields adds fields but for those that were there first.
func (b *builder) mergeFields(v *value, fields []field, seen map[string]position) {
	for _, f := range fields {
		if _, given := seen[f.name]; given || b.merged > maxMerged {
			continue
		}
		if b.merged++; b.merged > maxMerged {
			b.add(v.at, v.path, "the merge keys of this document add more than %d fields", maxMerged)
			return
		}
		seen[f.name] = f.at
		v.fields = append(v.fields, f)
	}
}

func (b *builder) anchor(n *ast.AnchorNode, path string) *value {
	name := n.Name.GetToken().Value
	b.anchors[name] = nil
	v := b.value(n.Value, path)
	b.anchors[name] = v
	return v
}

// alias returns the value that was last anchored under the name.
func (b *builder) alias(v *value, n *ast.AliasNode) *value {
	name := n.Value.GetToken().Value
	switch anchored, known := b.anchors[name]; {
	case !known:
		b.add(v.at, v.path, "no anchor stands before the alias %s (%s)", quote("*"+name), quoteStar)
	case anchored == nil:
		b.add(v.at, v.path, "the alias %s stands within its own anchor", quote("*"+name))
	default:
		return anchored
	}
	return v
}

// tag reads a value as text if !!str says so. Other tags have no use here.
func (b *builder) tag(n *ast.TagNode, path string) *value {
	v := b.value(n.Value, path)
	switch tag := n.GetToken().Value; {
	case tag == "!!str" && (v.kind == scalar || v.kind == null):
		return &value{kind: scalar, text: v.text, at: v.at, path: v.path}
	case v.kind != broken:
		b.add(b.position(n.GetToken()), path, "the tag %s is not supported here: leave it out", quote(tag))
	}
	return &value{path: path}
}
