package file

import "github.com/goccy/go-yaml/token"

// maxNesting bounds how deep the parser goes into itself. It has no bound of its
// own, and nothing recovers from a stack that runs out.
const maxNesting = 10_000

// tooDeep returns the token at which the parser may be more than maxNesting
// calls deep, or nil. The parser calls itself for each collection, tag, anchor
// and complex key, and in a mapping in block style for each key.
func tooDeep(tokens token.Tokens) *token.Token {
	n := nesting{levels: []level{{column: -1}}}
	line := 0
	for _, t := range tokens {
		if previous := t.PreviousType(); t.Type == token.CommentType ||
			previous == token.LiteralType || previous == token.FoldedType {
			continue
		}
		if t.Position.Line != line && !n.top().flow {
			n.block(t)
		}
		line = t.Position.Line
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			n.push(level{flow: true})
		case token.CollectEntryType:
			if n.top().flow {
				n.pop()
				n.push(level{flow: true})
			}
		case token.MappingEndType, token.SequenceEndType:
			if n.top().flow {
				n.pop()
			}
			continue
		default:
		}
		n.top().steps++
		if n.depth++; n.depth > maxNesting {
			return t
		}
	}
	return nil
}

// A nesting is the collections that are open at some token.
type nesting struct {
	levels []level
	depth  int // the sum of their steps
}

type level struct {
	flow   bool // in brackets
	list   bool // of block entries
	column int  // of a block
	steps  int  // how deep the parser may be in it
}

func (n *nesting) top() *level { return &n.levels[len(n.levels)-1] }

func (n *nesting) push(l level) { n.levels = append(n.levels, l) }

func (n *nesting) pop() {
	n.depth -= n.top().steps
	n.levels = n.levels[:len(n.levels)-1]
}

// block closes the blocks that end before the first token of a line, also the
// entry of a list that was before this one, and opens the one it begins.
func (n *nesting) block(t *token.Token) {
	column, list := t.Position.Column, t.Type == token.SequenceEntryType
	for !n.top().flow && (n.top().column > column || n.top().column == column && n.top().list) {
		n.pop()
	}
	if n.top().column < column || list {
		n.push(level{column: column, list: list})
	}
}
