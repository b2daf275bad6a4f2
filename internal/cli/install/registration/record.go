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
	// ErrForeign reports a router that another owner has already registered.
	ErrForeign = errors.New("already registered, but not by this command")
	// ErrRecord reports an invalid AnnotationRecord.
	ErrRecord = errors.New("annotation " + AnnotationRecord + " is invalid: restore it, or remove it together with the entries that it lists")
)

// State is the state of the controller's ConfigMap.
type Change struct {
	// Text is the list of plugins; empty if the key does not exist.
	Text string
	// Record is the value of AnnotationRecord; empty if it does not exist.
	Record string
}

// StateOf returns the current state. live is nil if the ConfigMap does not exist.
func Of(live *corev1.ConfigMap) Change {
	if live == nil {
		return Change{}
	}
	return Change{Text: live.Data[facts.PluginsKey], Record: live.Annotations[AnnotationRecord]}
}

// Register adds entries to the list and records the previous ones. It fails with [ErrForeign] if another owner has
// registered a different file for a router, unless replace is set. A correct entry without a record still belongs to
// its owner.
func Register(now Change, entries []Entry, replace bool) (Change, error) {
	record, err := recordOf(now.Record)
	if err != nil {
		return Change{}, err
	}
	list, err := parse(now.Text)
	if err != nil {
		return Change{}, err
	}
	for _, entry := range entries {
		former, err := textOf(list, entry.Name)
		if err != nil {
			return Change{}, err
		}
		isNew := add(list, entry)
		_, isOurs := record[entry.Name]
		switch {
		case !isNew || isOurs:
		case former != "" && !replace:
			return Change{}, fmt.Errorf("%s: %w:\n%suse --replace to replace it; uninstall restores it", entry.Name, ErrForeign, former)
		default:
			record[entry.Name] = former
		}
	}
	return write(now, list, record)
}

// Unregister removes the entries that Register has added, and restores the previous ones.
func Unregister(now Change) (Change, error) {
	record, err := recordOf(now.Record)
	if err != nil || len(record) == 0 {
		return now, err
	}
	list, err := parse(now.Text)
	if err != nil {
		return Change{}, err
	}
	var kept []*yaml.Node
	for _, element := range list.Content {
		former, isOurs := "", false
		if name := valueOf(element, "name"); name != nil {
			former, isOurs = record[name.Value]
		}
		switch {
		case !isOurs:
			kept = append(kept, element)
		case former != "":
			before, err := parse(former)
			if err != nil {
				return Change{}, fmt.Errorf("%w: %w", ErrRecord, err)
			}
			kept = append(kept, before.Content...)
		}
	}
	list.Content = kept
	return write(now, list, nil)
}

// Registered returns the names of the routers that Register has added.
func Registered(now Change) ([]string, error) {
	record, err := recordOf(now.Record)
	var names []string
	for _, router := range Routers() {
		if _, is := record[router]; is {
			names = append(names, router)
		}
	}
	return names, err
}

// parseRecord parses a record.
func recordOf(text string) (map[string]string, error) {
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
func textOf(list *yaml.Node, name string) (string, error) {
	for _, element := range list.Content {
		if found := valueOf(element, "name"); found != nil && found.Value == name {
			return format(&yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{element}})
		}
	}
	return "", nil
}

// newState returns the state with a list and a record. If the list is equivalent to the current one, its text is
// unchanged.
func write(now Change, list *yaml.Node, record map[string]string) (Change, error) {
	next := Change{}
	if len(list.Content) > 0 {
		text, err := format(list)
		if err != nil {
			return Change{}, err
		}
		before, err := parse(now.Text)
		if err != nil {
			return Change{}, err
		}
		if same, err := format(before); err != nil || same == text {
			text = now.Text
		}
		next.Text = text
	}
	if len(record) > 0 {
		text, err := json.Marshal(record)
		if err != nil {
			return Change{}, fmt.Errorf("%w: %w", ErrRecord, err)
		}
		next.Record = string(text)
	}
	return next, nil
}
