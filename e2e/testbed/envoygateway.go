package testbed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxErrorLines is the number of log lines in a message.
const maxErrorLines = 20

// EnvoyGatewayErrors returns the first lines with a 5xx response from the access logs of Envoy Gateway's proxies. The
// lines contain Envoy's reason. If the logs can't be read, it returns the error's text.
func EnvoyGatewayErrors(logs string) string {
	lines, err := errorLines(logs)
	if err != nil {
		return err.Error()
	}
	return strings.Join(lines[:min(len(lines), maxErrorLines)], "")
}

// CountClusterNotFound counts the requests for a host that a proxy of Envoy Gateway rejected because the cluster of the
// matching route did not exist yet.
func CountClusterNotFound(logs, host string) int {
	count := 0
	lines, _ := errorLines(logs) // no log, no rejected request
	for _, line := range lines {
		isClusterNotFound := strings.Contains(line, `"response_code_details":"cluster_not_found"`) &&
			strings.Contains(line, `"response_flags":"NC"`)
		if isClusterNotFound && strings.Contains(line, `":authority":"`+host+`"`) {
			count++
		}
	}
	return count
}

// errLogNotFound means that no proxy of Envoy Gateway has a log.
var errLogNotFound = errors.New("no log")

// errorLines reads the log files in the node's folder, where the kubelet writes them. kubectl does not return rotated
// files.
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
