package testbed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxErrorLines is how many lines of a log are shown.
const maxErrorLines = 20

// EnvoyGatewayErrors are the first lines of the access logs of Envoy Gateway's proxies that tell of an error, with
// Envoy's own reason for it, or why they can't be read.
func EnvoyGatewayErrors(logs string) string {
	lines, err := errorLines(logs)
	if err != nil {
		return err.Error()
	}
	return strings.Join(lines[:min(len(lines), maxErrorLines)], "")
}

// CountClusterNotFound counts the requests for a host that a proxy of Envoy Gateway had a rule for, and not its
// cluster.
func CountClusterNotFound(logs, host string) int {
	count := 0
	lines, _ := errorLines(logs) // without a log there is no gap
	for _, line := range lines {
		isClusterNotFound := strings.Contains(line, `"response_code_details":"cluster_not_found"`) &&
			strings.Contains(line, `"response_flags":"NC"`)
		if isClusterNotFound && strings.Contains(line, `":authority":"`+host+`"`) {
			count++
		}
	}
	return count
}

// errLogNotFound says that no proxy of Envoy Gateway has logged anything.
var errLogNotFound = errors.New("no log is found")

// errorLines reads below the node's folder of logs, where the kubelet keeps them: what it has put aside is not shown by
// kubectl.
func errorLines(logs string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(logs, "pods", "envoy-gateway-system_envoy-*", "envoy", "*.log*"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(fmt.Errorf("%w below %s", errLogNotFound, logs), err)
	}
	var lines []string
	for _, name := range files {
		text, err := os.ReadFile(filepath.Clean(name))
		if err != nil {
			return lines, err
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, `"response_code":5`) {
				lines = append(lines, line)
			}
		}
	}
	return lines, nil
}
