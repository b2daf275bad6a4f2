// Package serviceport finds the port of an experiment's Service that takes the requests of the canary Service: routers and the interceptor have to agree on it.
package serviceport

import (
	"slices"
	"strconv"
	"strings"
)

// httpName is what a port is usually named that serves requests.
const httpName = "http"

// Port is a TCP port of a Service.
type Port struct {
	// Number is the Service's port.
	Number int32
	// Name is the port's name; empty for the only one of a Service without.
	Name string
	// Target is where it leads to in the Pods: a container port's number, or its name. Empty or "0" means Number.
	Target string
}

// For finds the port of an experiment's Service that takes what port number of the canary Service takes. The controller makes such a Service with the container's
// ports (argo-rollouts experiments/experiment.go, createTemplateService), so that the numbers of the two differ wherever a Service's port isn't its target.
//
// It is the port of the same number; else that of the number, or the name, of the container port that the canary's port leads to; else of the canary port's
// name; else the one named http; else the only one.
func For(canary []Port, number int32, offered []Port) (Port, bool) {
	var asked Port
	if at := slices.IndexFunc(canary, func(p Port) bool { return p.Number == number }); at >= 0 {
		asked = canary[at]
	}
	rules := []func(Port) bool{
		func(p Port) bool { return p.Number == number },
		func(p Port) bool { return strconv.Itoa(int(p.Number)) == asked.Target },
		func(p Port) bool { return p.Name != "" && p.Name == asked.Target },
		func(p Port) bool { return p.Name != "" && p.Name == asked.Name },
		func(p Port) bool { return p.Name == httpName },
		func(Port) bool { return len(offered) == 1 },
	}
	for _, rule := range rules {
		if at := slices.IndexFunc(offered, rule); at >= 0 {
			return offered[at], true
		}
	}
	return Port{}, false
}

// Numbers lists ports for a message.
func Numbers(ports []Port) string {
	texts := make([]string, 0, len(ports))
	for _, port := range ports {
		texts = append(texts, strconv.Itoa(int(port.Number)))
	}
	if len(texts) == 0 {
		return "none"
	}
	return strings.Join(texts, ", ")
}
