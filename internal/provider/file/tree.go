package file

import (
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// maxMerged is the most fields that the merge keys of a document add to its
// mappings.
const maxMerged = 100_000

// A resolver turns the syntax tree of one document into values.
type resolver struct {
	*report

	before  int               // lines of the file before the document
	lines   []string          // of the document
	anchors map[string]*value // nil while what is anchored is being read
	merged  int               // fields so far
}

// resolve returns the document of a chunk.
func resolve(tree ast.Node, c chunk, to *report) *value {
	r := resolver{report: to, before: c.before, lines: strings.Split(c.text, "\n"), anchors: map[string]*value{}}
	return r.value(tree, "")
}

func (r *resolver) value(n ast.Node, path string) *value {
	v := &value{path: path}
	if n == nil {
		v.kind = null
		return v
	}
	v.at = r.position(n.GetToken())
	switch n := n.(type) {
	case *ast.NullNode:
		v.kind = null
	case *ast.StringNode:
		v.kind, v.text, v.plain = scalar, n.Value, n.Token.Type == token.StringType
		v.at.column -= r.misplaced(n.Token)
	case *ast.LiteralNode:
		v.kind, v.text = scalar, n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		v.kind, v.text, v.plain = scalar, n.GetToken().Value, true
		v.at.column -= r.misplaced(n.GetToken())
	case *ast.SequenceNode:
		r.list(v, n)
	case *ast.MappingNode:
		r.mapping(v, n)
	case *ast.AnchorNode:
		return r.anchor(n, path)
	case *ast.AliasNode:
		return r.alias(v, n)
	case *ast.TagNode:
		return r.tag(n, path)
	default:
		r.add(v.at, path, "%s is not supported here", n.Type())
	}
	return v
}

func (r *resolver) position(t *token.Token) position {
	at := positionOf(t)
	at.line += r.before
	return at
}

// misplaced returns how far to the right of its place the parser sees a scalar
// without quotes, which it does if the line ends with blanks.
func (r *resolver) misplaced(t *token.Token) int {
	at := positionOf(t)
	if at.line > len(r.lines) {
		return 0
	}
	before, ok := strings.CutSuffix(strings.TrimRight(r.lines[at.line-1], " \t"), t.Value)
	if !ok {
		return 0
	}
	return max(0, at.column-1-utf8.RuneCountInString(before))
}

func (r *resolver) list(v *value, n *ast.SequenceNode) {
	v.kind = list
	for i, item := range n.Values {
		v.items = append(v.items, r.value(item, index(v.path, i)))
	}
}

func (r *resolver) mapping(v *value, n *ast.MappingNode) {
	v.kind = mapping
	if !n.IsFlowStyle && len(n.Values) > 0 {
		v.at = r.position(n.Values[0].Key.GetToken())
	}
	var merges []field
	seen := map[string]position{}
	for _, entry := range n.Values {
		key, ok := r.key(entry.Key, v.path)
		key.value = r.value(entry.Value, join(v.path, key.name))
		if !ok {
			continue
		}
		if first, again := seen[key.name]; again {
			r.add(key.at, join(v.path, key.name), "duplicate key %s, first given on line %d", quote(key.name), first.line)
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
		r.merge(v, key, seen)
	}
}

// key returns a field without value. It reports false if its key is no scalar.
func (r *resolver) key(n ast.MapKeyNode, path string) (field, bool) {
	var node ast.Node = n
	if complex, ok := n.(*ast.MappingKeyNode); ok {
		node = complex.Value
	}
	at := r.position(n.GetToken())
	if n.IsMergeKey() {
		return field{name: n.GetToken().Value, at: at}, true
	}
	v := r.value(node, path)
	switch v.kind {
	case broken:
		return field{}, false
	case scalar:
		return field{name: v.text, at: at}, true
	default:
		r.add(at, path, "a key must be a name, this one is %s", v)
		return field{}, false
	}
}

// merge adds the fields of what a merge key names, one mapping or several.
func (r *resolver) merge(v *value, key field, seen map[string]position) {
	sources := []*value{key.value}
	if key.value.kind == list {
		sources = key.value.items
	}
	for _, source := range sources {
		switch source.kind {
		case broken:
		case mapping:
			r.mergeFields(v, source.fields, seen)
		default:
			r.add(key.at, join(v.path, key.name), "<< takes a mapping or a list of mappings, not %s", source)
		}
	}
}

// mergeFields adds fields but for those that were there first.
func (r *resolver) mergeFields(v *value, fields []field, seen map[string]position) {
	for _, f := range fields {
		if _, given := seen[f.name]; given || r.merged > maxMerged {
			continue
		}
		if r.merged++; r.merged > maxMerged {
			r.add(v.at, v.path, "the merge keys of this document add more than %d fields", maxMerged)
			return
		}
		seen[f.name] = f.at
		v.fields = append(v.fields, f)
	}
}

func (r *resolver) anchor(n *ast.AnchorNode, path string) *value {
	name := n.Name.GetToken().Value
	r.anchors[name] = nil
	v := r.value(n.Value, path)
	r.anchors[name] = v
	return v
}

// alias returns the value that was last anchored under the name.
func (r *resolver) alias(v *value, n *ast.AliasNode) *value {
	name := n.Value.GetToken().Value
	switch anchored, known := r.anchors[name]; {
	case !known:
		r.add(v.at, v.path, "no anchor stands before the alias %s (%s)", quote("*"+name), quoteStar)
	case anchored == nil:
		r.add(v.at, v.path, "the alias %s stands within its own anchor", quote("*"+name))
	default:
		return anchored
	}
	return v
}

// tag reads a value as text if !!str says so. Other tags have no use here.
func (r *resolver) tag(n *ast.TagNode, path string) *value {
	v := r.value(n.Value, path)
	switch tag := n.GetToken().Value; {
	case tag == "!!str" && (v.kind == scalar || v.kind == null):
		return &value{kind: scalar, text: v.text, at: v.at, path: v.path}
	case v.kind != broken:
		r.add(r.position(n.GetToken()), path, "the tag %s is not supported here: leave it out", quote(tag))
	}
	return &value{path: path}
}
