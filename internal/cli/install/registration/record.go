package registration

import (
	"encoding/json"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// AnnotationRecord is an annotation on the controller's ConfigMap with the entries that this project's installer has
// added: a JSON object that maps each router to the YAML of its previous entry; empty if it had none.
const AnnotationRecord = "http.kedify.io/registered-plugins"

var (
	// ErrNotOwned reports a router that another owner has already registered.
	ErrNotOwned = errors.New("already registered, but not by this command")
	// ErrRecord reports an invalid AnnotationRecord.
	ErrRecord = errors.New("annotation " + AnnotationRecord +
		" is invalid: restore it, or remove it together with the entries that it lists")
)

// State is the state of the controller's ConfigMap.
type State struct {
	// Text is the list of plugins; empty if the key does not exist.
	Text string
	// Record is the value of AnnotationRecord; empty if it does not exist.
	Record string
}

// StateOf returns the current state. live is nil if the ConfigMap does not exist.
func StateOf(live *corev1.ConfigMap) State {
	if live == nil {
		return State{}
	}
	return State{Text: live.Data[facts.PluginsKey], Record: live.Annotations[AnnotationRecord]}
}

// Register adds entries to the list and records the previous ones. It fails with [ErrNotOwned] if another owner has
// registered a different file for a router, unless replace is set. A correct entry without a record still belongs to
// its owner.
func Register(current State, entries []Entry, replace bool) (State, error) {
	record, err := parseRecord(current.Record)
	if err != nil {
		return State{}, err
	}
	list, err := parse(current.Text)
	if err != nil {
		return State{}, err
	}
	for _, entry := range entries {
		previous, err := entryText(list, entry.Name)
		if err != nil {
			return State{}, err
		}
		changed := setEntry(list, entry)
		_, isOwned := record[entry.Name]
		switch {
		case !changed || isOwned:
		case previous != "" && !replace:
			return State{}, fmt.Errorf("%s: %w:\n%suse --replace to replace it; uninstall restores it", entry.Name,
				ErrNotOwned, previous)
		default:
			record[entry.Name] = previous
		}
	}
	return newState(current, list, record)
}

// Unregister removes the entries that Register has added, and restores the previous ones.
func Unregister(current State) (State, error) {
	record, err := parseRecord(current.Record)
	if err != nil || len(record) == 0 {
		return current, err
	}
	list, err := parse(current.Text)
	if err != nil {
		return State{}, err
	}
	var kept []*yaml.Node
	for _, element := range list.Content {
		previous, isOwned := "", false
		if name := valueOf(element, "name"); name != nil {
			previous, isOwned = record[name.Value]
		}
		switch {
		case !isOwned:
			kept = append(kept, element)
		case previous != "":
			before, err := parse(previous)
			if err != nil {
				return State{}, fmt.Errorf("%w: %w", ErrRecord, err)
			}
			kept = append(kept, before.Content...)
		}
	}
	list.Content = kept
	return newState(current, list, nil)
}

// Registered returns the names of the routers that Register has added.
func Registered(current State) ([]string, error) {
	record, err := parseRecord(current.Record)
	var names []string
	for _, router := range Routers() {
		if _, ok := record[router]; ok {
			names = append(names, router)
		}
	}
	return names, err
}

// parseRecord parses a record.
func parseRecord(text string) (map[string]string, error) {
	record := map[string]string{}
	if text == "" {
		return record, nil
	}
	if err := json.Unmarshal([]byte(text), &record); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return record, nil
}

// entryText returns the YAML of an entry as a list of its own; empty if it does not exist.
func entryText(list *yaml.Node, name string) (string, error) {
	for _, element := range list.Content {
		if value := valueOf(element, "name"); value != nil && value.Value == name {
			return format(&yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{element}})
		}
	}
	return "", nil
}

// newState returns the state with a list and a record. If the list is equivalent to the current one, its text is
// unchanged.
func newState(current State, list *yaml.Node, record map[string]string) (State, error) {
	next := State{}
	if len(list.Content) > 0 {
		text, err := format(list)
		if err != nil {
			return State{}, err
		}
		before, err := parse(current.Text)
		if err != nil {
			return State{}, err
		}
		if same, err := format(before); err != nil || same == text {
			text = current.Text
		}
		next.Text = text
	}
	if len(record) > 0 {
		text, err := json.Marshal(record)
		if err != nil {
			return State{}, fmt.Errorf("%w: %w", ErrRecord, err)
		}
		next.Record = string(text)
	}
	return next, nil
}
