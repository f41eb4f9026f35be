package main

import (
	"encoding/json"
	"fmt"
	"runtime"
)

type versionReport struct {
	Output string `enum:"text,json" default:"text" help:"How to print: text or json."`
}

// Help is printed below the flags.
func (versionReport) Help() string {
	return `Examples:

    rlsd version
    rlsd version --output json`
}

// Run prints the version.
func (c *versionReport) Run(to streams) error {
	if c.Output == "json" {
		return json.NewEncoder(to.out).Encode(map[string]string{"version": version, "go": runtime.Version()})
	}
	_, err := fmt.Fprintf(to.out, "rlsd %s (%s)\n", version, runtime.Version())
	return err
}
