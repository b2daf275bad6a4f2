package main

import (
	"fmt"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/realparts"
)

// shape is how many HTTPScaledObjects there are, and over how many fleets they are spread evenly.
// The first fleet, that of the measured host, is the only one with a proxy.
type shape struct {
	Fleets  int `json:"fleets"`
	Objects int `json:"httpScaledObjects"`
}

// String is the shape as the command line has it.
func (s shape) String() string { return fmt.Sprintf("%dx%d", s.Fleets, s.Objects) }

// namespaceOf is the namespace, which is the fleet, of an application.
func (s shape) namespaceOf(i int) string { return fleetName(i % s.Fleets) }

// fleetName is the namespace of a fleet.
func fleetName(fleet int) string { return fmt.Sprintf("shop-%03d", fleet) }

// shapesOf reads shapes, separated by commas.
func shapesOf(text string) ([]shape, error) {
	var shapes []shape
	for part := range strings.SplitSeq(text, ",") {
		var each shape
		_, err := fmt.Sscanf(part, "%dx%d", &each.Fleets, &each.Objects)
		if err != nil || each.String() != part || each.Fleets < 1 || each.Objects < 2*each.Fleets {
			return nil, fmt.Errorf("%w: --shapes is %q: such as 1x1000,100x10000, "+
				"each with two HTTPScaledObjects for a fleet at least", realparts.ErrArgument, text)
		}
		shapes = append(shapes, each)
	}
	return shapes, nil
}
