package file

import (
	"github.com/rlsd/rlsd/internal/policy"
)

// decode returns the documents of a rule file as far as they can be made out.
func decode(data []byte, r *report) []policy.Document {
	if len(data) > maxSize {
		r.add(position{}, "", "larger than %d MiB", maxSize>>20)
		return nil
	}
	text, bad := clean(data)
	if bad != (position{}) {
		r.add(bad, "", "not UTF-8: save the file in that encoding")
		return nil
	}

	var documents []policy.Document
	d := decoder{report: r}
	empty := true
	for _, c := range split(text) {
		trees, fault := parse(c.text)
		if fault != nil {
			r.add(position{c.before + fault.at.line, fault.at.column}, "", "%s", fault.message)
		}
		for _, tree := range trees {
			b := builder{report: r, before: c.before, anchors: map[string]*value{}}
			if doc, ok := d.document(b.value(tree, "")); ok {
				documents = append(documents, doc)
			}
		}
		empty = empty && fault == nil && len(trees) == 0
	}
	if empty {
		r.add(position{}, "", "no document in this file: give it a domain or take it away")
	}
	return documents
}
