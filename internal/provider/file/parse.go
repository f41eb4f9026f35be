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

// A syntaxFault is where the parser cannot go on, and why.
type syntaxFault struct {
	at      position
	message string
}

// parse returns the syntax trees of a text, which is one unless the parser sees
// more documents than split did. Positions are within the text.
func parse(text string) (trees []ast.Node, fault *syntaxFault) {
	defer func() {
		if cause := recover(); cause != nil {
			fault = &syntaxFault{position{1, 1}, "the YAML parser fails on this document: " + quote(fmt.Sprint(cause))}
		}
	}()

	tokens := lexer.Tokenize(text)
	if t := tooDeep(tokens); t != nil {
		return nil, &syntaxFault{positionOf(t), "too many keys in one mapping or too deeply nested"}
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, explain(err)
	}
	for _, doc := range file.Docs {
		switch doc.Body.(type) {
		case nil, *ast.NullNode, *ast.DirectiveNode:
		default:
			trees = append(trees, doc.Body)
		}
	}
	return trees, nil
}

func explain(err error) *syntaxFault {
	syntax, ok := errors.AsType[*yaml.SyntaxError](err)
	if !ok {
		return &syntaxFault{position{1, 1}, err.Error()}
	}
	message := syntax.Message
	if t := syntax.Token; t != nil && t.Type == token.AliasType {
		message += " (" + quoteStar + ")"
	}
	return &syntaxFault{positionOf(syntax.Token), message}
}

// quoteStar is what to do about a wildcard that YAML takes for an alias.
const quoteStar = "a value that begins with * needs quotes"

func positionOf(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{1, 1}
	}
	return position{t.Position.Line, max(1, t.Position.Column)}
}
