package file

// decode returns the documents of a rule file as far as they can be made out.
func decode(data []byte, r *report) []document {
	if len(data) > maxSize {
		r.add(position{}, "", "larger than %d MiB", maxSize>>20)
		return nil
	}
	text, bad := clean(data)
	if bad != (position{}) {
		r.add(bad, "", "not UTF-8: save the file in that encoding")
		return nil
	}

	var documents []document
	d := decoder{report: r}
	for _, c := range split(text) {
		documents = append(documents, d.chunk(c)...)
	}
	if d.documents == 0 && len(r.faults) == 0 {
		r.add(position{}, "", "no document in this file: give it a domain or take it away")
	}
	return documents
}

// chunk returns the documents of a chunk of the file.
func (d *decoder) chunk(c chunk) []document {
	var documents []document
	for _, v := range parse(c, d.report) {
		d.documents++
		if doc, ok := d.document(v); ok {
			documents = append(documents, document{doc, c})
		}
	}
	return documents
}
