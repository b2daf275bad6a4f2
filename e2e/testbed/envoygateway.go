package testbed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mostRefusals is how many lines of a log are shown.
const mostRefusals = 20

// EnvoyGatewayRefusals are the first lines of the access logs of Envoy Gateway's proxies that tell of an error, with Envoy's own reason for it, or why they can't be
// read.
func EnvoyGatewayRefusals(logs string) string {
	found, err := refusals(logs)
	if err != nil {
		return err.Error()
	}
	return strings.Join(found[:min(len(found), mostRefusals)], "")
}

// ClusterGaps counts the requests for a host that a proxy of Envoy Gateway had a rule for, and not its cluster.
func ClusterGaps(logs, host string) int {
	gaps := 0
	found, _ := refusals(logs) // without a log there is no gap
	for _, line := range found {
		isGap := strings.Contains(line, `"response_code_details":"cluster_not_found"`) && strings.Contains(line, `"response_flags":"NC"`)
		if isGap && strings.Contains(line, `":authority":"`+host+`"`) {
			gaps++
		}
	}
	return gaps
}

// errNoLog says that no proxy of Envoy Gateway has logged anything.
var errNoLog = errors.New("no log is found")

// refusals reads below the node's folder of logs, where the kubelet keeps them: what it has put aside is not shown by kubectl.
func refusals(logs string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(logs, "pods", "envoy-gateway-system_envoy-*", "envoy", "*.log*"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(fmt.Errorf("%w below %s", errNoLog, logs), err)
	}
	var found []string
	for _, name := range files {
		text, err := os.ReadFile(filepath.Clean(name))
		if err != nil {
			return found, err
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, `"response_code":5`) {
				found = append(found, line)
			}
		}
	}
	return found, nil
}
