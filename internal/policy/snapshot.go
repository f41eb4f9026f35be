package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
)

// A Snapshot is all policies at one version. It is immutable and safe for
// concurrent use. [Build] and [NewSnapshot] make one.
type Snapshot struct {
	policies map[string]*Policy
	limits   []*Limit
	hash     string
}

// Policy returns the policy of a domain, or nil if the domain is unknown.
func (s *Snapshot) Policy(domain string) *Policy { return s.policies[domain] }

// Domains returns the names of all domains, sorted.
func (s *Snapshot) Domains() []string { return slices.Sorted(maps.Keys(s.policies)) }

// Limits returns all limits, sorted by domain and then by source.
func (s *Snapshot) Limits() []*Limit { return slices.Clone(s.limits) }

// Hash returns the version of the snapshot: 128 bits in hex of everything the
// rules say. It changes if and only if that does: how rules are spread over
// files, the order of nodes and comments do not matter.
func (s *Snapshot) Hash() string { return s.hash }

// NewSnapshot puts together the policies of distinct domains.
func NewSnapshot(policies []*Policy) *Snapshot {
	s := &Snapshot{policies: make(map[string]*Policy, len(policies))}
	for _, p := range policies {
		s.policies[p.domain] = p
		for _, r := range p.rules {
			s.limits = append(s.limits, r.Limits...)
		}
	}
	slices.SortStableFunc(s.limits, func(l, m *Limit) int {
		return cmp.Or(cmp.Compare(l.Domain, m.Domain), l.Source.Compare(m.Source), cmp.Compare(l.Name, m.Name))
	})
	sum := sha256.New()
	for _, domain := range s.Domains() {
		_, _ = io.WriteString(sum, s.policies[domain].hash) // a hash does not fail
	}
	s.hash = hex.EncodeToString(sum.Sum(nil)[:16])
	return s
}

func newPolicy(b *builder) *Policy {
	rules := slices.SortedFunc(slices.Values(b.rules), func(q, r *Rule) int { return cmp.Compare(q.Path, r.Path) })
	root := compile(&b.root, trail{}) // which completes the rules
	return &Policy{domain: b.domain, root: root, rules: rules, hash: hash(b.domain, rules)}
}

// Rules returns all rules of the policy, sorted by path.
func (p *Policy) Rules() []*Rule { return slices.Clone(p.rules) }

// Hash returns what [Snapshot.Hash] does, of one domain.
func (p *Policy) Hash() string { return p.hash }

func hash(domain string, rules []*Rule) string {
	sum := sha256.New()
	out := json.NewEncoder(sum)
	_ = out.Encode([]any{domain, len(rules)}) // neither a hash nor these types fail
	for _, r := range rules {
		_ = out.Encode(r.withoutSource())
		_ = out.Encode(fmt.Sprint(r.entries, r.metric))
		for _, l := range r.Limits {
			_ = out.Encode(l.ID()) // JSON does not tell zones apart
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// withoutSource returns a copy of the rule that says the same from nowhere.
func (r *Rule) withoutSource() Rule {
	bare := *r
	bare.Source, bare.Limits = Source{}, nil
	for _, l := range r.Limits {
		nowhere := *l
		nowhere.Source = Source{}
		bare.Limits = append(bare.Limits, &nowhere)
	}
	return bare
}
