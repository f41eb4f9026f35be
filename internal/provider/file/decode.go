package file

import "github.com/rlsd/rlsd/internal/policy"

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
		for _, v := range parse(c, r) {
			empty = false
			if doc, ok := d.document(v); ok {
				documents = append(documents, doc)
			}
		}
	}
	if empty && len(r.faults) == 0 {
		r.add(position{}, "", "no document in this file: give it a domain or take it away")
	}
	return documents
}
