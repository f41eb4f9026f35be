package main

import (
	"fmt"

	"github.com/rlsd/rlsd/internal/service"
)

// rlsOptions reads the flags about how Envoy is answered.
func (c *serve) rlsOptions() (o service.RLSOptions, err error) {
	if o.Headers, err = service.ParseHeaderSet(c.ResponseHeaders); err != nil {
		return o, fmt.Errorf("--response-headers: %w", err)
	}
	if o.Envoy, err = service.ParseEnvoyVersion(c.EnvoyMinVersion); err != nil {
		return o, fmt.Errorf("--envoy-min-version: %w", err)
	}
	o.ProblemBody = c.DeniedBody == "problem+json"
	return o, nil
}
