// Package serviceport maps a port of the canary Service to the corresponding port of an experiment's Service. Routers
// and the interceptor must agree on it.
package serviceport

import (
	"slices"
	"strconv"
	"strings"
)

// httpName is the usual name of an HTTP port.
const httpName = "http"

// Port is a TCP port of a Service.
type Port struct {
	// Number is the Service's port.
	Number int32
	// Name is the port's name; it may be empty if the Service has only one port.
	Name string
	// Target is the port of the Pods: number or name of a container port. Empty or "0" means Number.
	Target string
}

// For returns the port of an experiment's Service that corresponds to port number of the canary Service. The controller
// creates such a Service with the container's ports (argo-rollouts experiments/experiment.go, createTemplateService),
// so the numbers differ if a Service's port is not its target port.
//
// In this order, it is the port with the same number; the one with the number or the name of the canary port's target;
// the one with the canary port's name; the one named http; the only one.
func For(canary []Port, number int32, offered []Port) (Port, bool) {
	var canaryPort Port
	if at := slices.IndexFunc(canary, func(p Port) bool { return p.Number == number }); at >= 0 {
		canaryPort = canary[at]
	}
	rules := []func(Port) bool{
		func(p Port) bool { return p.Number == number },
		func(p Port) bool { return strconv.Itoa(int(p.Number)) == canaryPort.Target },
		func(p Port) bool { return p.Name != "" && p.Name == canaryPort.Target },
		func(p Port) bool { return p.Name != "" && p.Name == canaryPort.Name },
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

// Numbers formats the numbers of ports for a message.
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
