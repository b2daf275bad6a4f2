package autowire

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
)

// selectorField is the JSON pointer to the selector of a Service.
const selectorField = "/spec/selector"

// portField returns the JSON pointer to a field of a Service's port.
func portField(i int, field string) string { return fmt.Sprintf("/spec/ports/%d/%s", i, field) }

// errServiceRecord reports a restore record of a Service that the agent has not written.
var errServiceRecord = errors.New("not the restore record of a Service")

// serviceRecord is the restore record of a Service: what the agent has changed, before and after.
type serviceRecord struct {
	selector, taken map[string]string
	ports           []recordedPort
}

// recordedPort is a port of a Service whose target the agent has changed.
type recordedPort struct {
	number          int32
	original, taken intstr.IntOrString
}

// undo returns the selection of a Service without the agent's changes. isReverted reports whether someone else has
// undone some of them. What others have changed since stays. Each label and port counts for itself, as for kubectl apply:
// it may restore the selector of a manifest, and not the target of a port that the manifest omits.
func (r *serviceRecord) undo(current *selection) (original *selection, isReverted bool) {
	original = &selection{selector: map[string]string{}, ports: slices.Clone(current.ports)}
	isReverted = !maps.Equal(current.selector, r.taken)
	for label, value := range current.selector {
		if before, has := r.selector[label]; has && value == r.taken[label] {
			value = before
		}
		original.selector[label] = value
	}
	for _, changed := range r.ports {
		for i := range original.ports {
			port := &original.ports[i]
			switch isSame := port.Port == changed.number && isTCP(port); {
			case isSame && port.TargetPort == changed.taken:
				port.TargetPort = changed.original
			case isSame:
				isReverted = true
			}
		}
	}
	return original, isReverted
}

// isTCP reports whether a port is for TCP, which is the default.
func isTCP(port *corev1.ServicePort) bool {
	return port.Protocol == "" || port.Protocol == corev1.ProtocolTCP
}

// restoreSelection returns the operations of a restore record that restore the selection of a Service.
func (b *backend) restoreSelection(original *backend) []desired.Operation {
	patch := []desired.Operation{{Op: "test", Path: selectorField, Value: b.selection.selector}}
	for i, port := range b.selection.ports {
		if port.TargetPort != original.selection.ports[i].TargetPort {
			patch = append(patch, desired.Operation{Op: "test", Path: portField(i, "port"), Value: port.Port},
				desired.Operation{Op: "test", Path: portField(i, "targetPort"), Value: port.TargetPort})
		}
	}
	return append(patch, b.replaceSelection(original)...)
}

// parseServiceRecord reads the restore record of a Service, nil if there is none.
func parseServiceRecord(text string) (*serviceRecord, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // No record is an answer.
	}
	var patch []operation
	if err := json.Unmarshal([]byte(text), &patch); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", httpv1alpha1.AnnotationAutowireUndo, err)
	}
	record, ports := &serviceRecord{}, map[int]*recordedPort{}
	for _, current := range patch {
		if err := record.add(current, ports); err != nil {
			return nil, fmt.Errorf("annotation %s: %s: %w", httpv1alpha1.AnnotationAutowireUndo, current.Path, err)
		}
	}
	if len(record.selector) == 0 || len(record.taken) == 0 {
		return nil, fmt.Errorf("annotation %s: %w", httpv1alpha1.AnnotationAutowireUndo, errServiceRecord)
	}
	for _, i := range slices.Sorted(maps.Keys(ports)) {
		record.ports = append(record.ports, *ports[i])
	}
	return record, nil
}

// add adds the content of an operation to the record. ports are the changed ports by index.
func (r *serviceRecord) add(current operation, ports map[int]*recordedPort) error {
	isTest := current.Op == "test"
	switch {
	case current.Op == "remove":
		return nil
	case current.Path == selectorField && isTest:
		return json.Unmarshal(current.Value, &r.taken)
	case current.Path == selectorField:
		return json.Unmarshal(current.Value, &r.selector)
	}
	rest, isPort := strings.CutPrefix(current.Path, "/spec/ports/")
	index, field, _ := strings.Cut(rest, "/")
	i, err := strconv.Atoi(index)
	if !isPort || err != nil {
		return errServiceRecord
	}
	if ports[i] == nil {
		ports[i] = &recordedPort{}
	}
	switch {
	case field == "port":
		return json.Unmarshal(current.Value, &ports[i].number)
	case field == "targetPort" && isTest:
		return json.Unmarshal(current.Value, &ports[i].taken)
	case field == "targetPort":
		return json.Unmarshal(current.Value, &ports[i].original)
	}
	return errServiceRecord
}
