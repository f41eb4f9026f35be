package policy_test

import (
	"testing"

	"github.com/rlsd/rlsd/internal/policy"
)

func TestADomainIsBuiltByItself(t *testing.T) {
	t.Parallel()
	docs := []policy.Document{document("b", "d", limited("b", "", "two")), document("a", "d", limited("a", "", "one"))}
	p, faults := policy.BuildDomain("d", docs)
	if faults != nil || p.Domain() != "d" || len(p.Rules()) != 2 || p.Rules()[0].Path != "a" || p.Rules()[1].Path != "b" {
		t.Fatalf("got %v, %v", p, faults)
	}
	other, _ := policy.BuildDomain("e", nil)
	together, err := policy.Build(append(docs, document("c", "e")))
	if err != nil {
		t.Fatal(err)
	}
	if got := policy.NewSnapshot([]*policy.Policy{other, p}); got.Hash() != together.Hash() || got.Policy("d") != p || len(got.Limits()) != 2 {
		t.Errorf("policies put together differ from documents built together")
	}
	if together.Policy("d").Hash() != p.Hash() || p.Hash() == other.Hash() {
		t.Error("the hash of a policy is not that of its rules")
	}
	clear(p.Rules())
	if p.Rules()[0] == nil {
		t.Error("callers can change the policy")
	}

	p, faults = policy.BuildDomain("d", append(docs, document("c", "d", limited("a", "", "three"))))
	if p != nil || len(faults) != 1 {
		t.Errorf("got %v, %v", p, faults)
	}
}
