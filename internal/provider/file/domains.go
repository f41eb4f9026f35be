package file

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/rlsd/rlsd/internal/policy"
)

// A version is the rules of a domain at a time when nothing was wrong with them.
type version struct {
	policy    *policy.Policy
	documents []document
}

// isFrom reports whether a path leads to any of the version's files.
func (v *version) isFrom(path string) bool {
	return slices.ContainsFunc(v.documents, func(d document) bool { return leadsTo(path, d.Source.File) })
}

// says reports whether the version is what the documents say.
func (v *version) says(documents []document) bool {
	return slices.EqualFunc(v.documents, documents, func(d, e document) bool {
		return d.Source == e.Source && d.chunk == e.chunk
	})
}

// A judgement is what sources come to, domain by domain.
type judgement struct {
	domains map[string]*version // that have rules: new ones, or if they are stale the last good ones
	stale   map[string]bool
	faults  policy.Faults
	// settled is whether for every fault there is a last good version to fall
	// back to.
	settled bool
}

// judge builds the rules of all domains. A domain that a fault taints stays at
// its last good version if it has one: a fault in a file taints each domain that
// the file speaks of now or in the last good version of that domain, a conflict
// taints its domain. If there is no telling what a file speaks of, it may be of
// any: no domain that there is loses or changes anything until it is mended.
func judge(sources []*source, last map[string]*version) *judgement {
	j := &judgement{domains: map[string]*version{}, stale: map[string]bool{}, settled: true}
	tainted, obscure := map[string]bool{}, false
	documents := map[string][]document{}
	for _, s := range sources {
		for _, d := range s.documents {
			documents[d.Domain] = append(documents[d.Domain], d)
		}
		if len(s.faults) > 0 {
			hit := s.domains(last)
			maps.Copy(tainted, hit)
			obscure = obscure || len(hit) == 0
			j.settled = j.settled && len(hit) > 0
			j.faults = append(j.faults, s.faults...)
		}
	}
	for domain, docs := range documents {
		v, faults := buildDomain(domain, docs, last[domain])
		if len(faults) > 0 {
			tainted[domain] = true
			j.faults = append(j.faults, faults...)
		}
		j.domains[domain] = v
	}
	for domain, v := range last {
		if obscure && j.domains[domain] != v {
			tainted[domain] = true
		}
	}
	for domain := range tainted {
		delete(j.domains, domain)
		if last[domain] == nil {
			j.settled = false
			continue
		}
		j.domains[domain], j.stale[domain] = last[domain], true
	}
	j.faults, _ = errors.AsType[policy.Faults](j.faults.Err()) // in order
	return j
}

// domains returns the domains that the source speaks of, or did.
func (s *source) domains(last map[string]*version) map[string]bool {
	domains := map[string]bool{}
	for _, d := range s.documents {
		domains[d.Domain] = true
	}
	for _, domain := range s.mentions {
		domains[domain] = true
	}
	for domain, v := range last {
		if v.isFrom(s.name) {
			domains[domain] = true
		}
	}
	return domains
}

func buildDomain(domain string, documents []document, last *version) (*version, policy.Faults) {
	if last != nil && last.says(documents) {
		return last, nil
	}
	docs := make([]policy.Document, len(documents))
	for i := range documents {
		docs[i] = documents[i].Document
	}
	p, faults := policy.BuildDomain(domain, docs)
	return &version{p, documents}, faults
}

// snapshot puts the policies of the domains together.
func (j *judgement) snapshot() *policy.Snapshot {
	policies := make([]*policy.Policy, 0, len(j.domains))
	for _, v := range j.domains {
		policies = append(policies, v.policy)
	}
	return policy.NewSnapshot(policies)
}

// files returns the files that the rules are from.
func (j *judgement) files() []string {
	files := map[string]bool{}
	for _, v := range j.domains {
		for _, d := range v.documents {
			files[d.Source.File] = true
		}
	}
	return slices.SortedFunc(maps.Keys(files), cmp.Compare)
}
