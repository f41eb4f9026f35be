package file

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// parse returns the document that a chunk holds, or none if it is null or not
// YAML. There are several if the parser sees more documents than split did.
func parse(c chunk, to *report) (documents []*value) {
	complain := func(t *token.Token, message string) {
		at := positionOf(t)
		to.add(position{c.before + at.line, at.column}, "", "%s", message)
	}
	defer func() {
		if cause := recover(); cause != nil {
			complain(nil, "the YAML parser fails on this document: "+quote(fmt.Sprint(cause)))
		}
	}()

	tokens := lexer.Tokenize(c.text)
	if t := tooDeep(tokens); t != nil {
		complain(t, "too many keys in one mapping or too deeply nested")
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		complain(explain(err))
		return nil
	}
	for _, doc := range file.Docs {
		switch doc.Body.(type) {
		case nil, *ast.NullNode, *ast.DirectiveNode:
		default:
			documents = append(documents, resolve(doc.Body, c, to))
		}
	}
	return documents
}

// explain returns where the parser could not go on, and why.
func explain(err error) (*token.Token, string) {
	syntax, ok := errors.AsType[*yaml.SyntaxError](err)
	if !ok {
		return nil, quote(err.Error())
	}
	if t := syntax.Token; t != nil && t.Type == token.AliasType {
		return t, syntax.Message + " (" + quoteStar + ")"
	}
	return syntax.Token, syntax.Message
}

// quoteStar is what to do about a wildcard that YAML takes for an alias.
const quoteStar = "a value that begins with * needs quotes"

func positionOf(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{1, 1}
	}
	return position{t.Position.Line, max(1, t.Position.Column)}
}
