// Package shipped contains the memory settings of the components' Deployments, and reads the memory of a process that
// runs with them.
package shipped

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/config"
)

// errNoProcess means that /proc does not contain a process, or not what is read of it.
var errNoProcess = errors.New("no such process")

// Interceptor is the file of the interceptor's Deployment.
const Interceptor = "interceptor/deployment.yaml"

// Settings returns the memory limit in bytes of the Deployment in a file below config, and its environment variables that
// control the garbage collector.
func Settings(file string) (limit int, variables []string, err error) {
	text, err := config.Files.ReadFile(file)
	if err != nil {
		return 0, nil, err
	}
	first, _, _ := strings.Cut(string(text), "\n---")
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict([]byte(first), &deployment); err != nil {
		return 0, nil, err
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	for _, variable := range container.Env {
		if strings.HasPrefix(variable.Name, "GO") {
			variables = append(variables, variable.Name+"="+variable.Value)
		}
	}
	return int(container.Resources.Limits.Memory().Value()), variables, nil
}

// Memory reads the memory of a process. It is the process's folder in /proc.
type Memory string

// MemoryOf returns the memory of a process of this PID namespace, whose IDs differ from those in /proc.
func MemoryOf(pid int) (Memory, error) {
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", err
	}
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return "", err
	}
	for _, folder := range folders {
		if namespace, err := os.Readlink(filepath.Join(folder, "ns/pid")); err != nil || namespace != own {
			continue // It has ended, or is not in this namespace.
		}
		ids, err := Memory(folder).field("NSpid")
		if err == nil && slices.Contains(ids[len(ids)-1:], strconv.Itoa(pid)) {
			return Memory(folder), nil
		}
	}
	return "", fmt.Errorf("%w: %d", errNoProcess, pid)
}

// Reset makes Peak begin again (proc_pid_clear_refs(5)).
func (m Memory) Reset() error {
	return os.WriteFile(filepath.Join(string(m), "clear_refs"), []byte("5"), 0)
}

// Peak returns the largest resident memory since Reset, in bytes.
func (m Memory) Peak() (int, error) { return m.bytes("VmHWM") }

// Resident returns the resident memory of now, in bytes.
func (m Memory) Resident() (int, error) { return m.bytes("VmRSS") }

// bytes returns a field in kB.
func (m Memory) bytes(name string) (int, error) {
	words, err := m.field(name)
	if err != nil {
		return 0, err
	}
	kilobytes, err := strconv.Atoi(words[0])
	return kilobytes << 10, err
}

// field returns the words of a field of the status, at least one.
func (m Memory) field(name string) ([]string, error) {
	status, err := os.ReadFile(filepath.Join(string(m), "status"))
	if err != nil {
		return nil, fmt.Errorf("the process has ended: %w", err)
	}
	found := regexp.MustCompile(`(?m)^` + name + `:(.*)$`).FindSubmatch(status)
	if found == nil || len(strings.Fields(string(found[1]))) == 0 {
		return nil, fmt.Errorf("%w: no %s in %s", errNoProcess, name, m)
	}
	return strings.Fields(string(found[1])), nil
}
