// Package service holds the doors: each translates a wire format to the engine
// and back. No door decides.
package service

import (
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/rlsd/rlsd/gen"
	rlsdv1 "github.com/rlsd/rlsd/gen/rlsd/v1"
)

// DecidingMethods lists the methods on the hot path by their full names.
func DecidingMethods() []string {
	return []string{rls.RateLimitService_ShouldRateLimit_FullMethodName, rlsdv1.DecisionService_Decide_FullMethodName}
}

// HealthNames lists the services whose health clients may ask for.
func HealthNames() []string {
	return []string{rls.RateLimitService_ServiceDesc.ServiceName, rlsdv1.DecisionService_ServiceDesc.ServiceName}
}

// DescriptorSet returns the descriptors of our own services with their
// comments, for reflection.
func DescriptorSet() []byte { return gen.Descriptors }
