package main

import (
	"fmt"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchmain"
)

// shape is a number of HTTPScaledObjects and of fleets, over which they are spread evenly. Only the first fleet, the
// measured host's, has a proxy.
type shape struct {
	Fleets  int `json:"fleets"`
	Objects int `json:"httpScaledObjects"`
}

// String formats the shape as on the command line.
func (s shape) String() string { return fmt.Sprintf("%dx%d", s.Fleets, s.Objects) }

// namespaceOf returns the namespace, and so the fleet, of an application.
func (s shape) namespaceOf(i int) string { return fleetName(i % s.Fleets) }

// fleetName returns the namespace of a fleet.
func fleetName(fleet int) string { return fmt.Sprintf("shop-%03d", fleet) }

// shapesOf parses shapes, separated by commas.
func shapesOf(text string) ([]shape, error) {
	var shapes []shape
	for part := range strings.SplitSeq(text, ",") {
		var next shape
		_, err := fmt.Sscanf(part, "%dx%d", &next.Fleets, &next.Objects)
		if err != nil || next.String() != part || next.Fleets < 1 || next.Objects < 2*next.Fleets {
			return nil, fmt.Errorf("%w: --shapes is %q: such as 1x1000,100x10000, "+
				"each with two HTTPScaledObjects for a fleet at least", benchmain.ErrArgument, text)
		}
		shapes = append(shapes, next)
	}
	return shapes, nil
}
