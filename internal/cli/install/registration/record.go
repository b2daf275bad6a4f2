package registration

import (
	"encoding/json"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// AnnotationRecord is on the controller's ConfigMap, and says which entries were put there by this project's installer: a
// JSON object of the text, in YAML, that the list had before for a router, by the router's name; empty where it had none.
const AnnotationRecord = "http.kedify.io/registered-plugins"

var (
	// ErrForeign says that a router is registered already, by somebody else.
	ErrForeign = errors.New("already registered, but not by this command")
	// ErrRecord says that AnnotationRecord cannot be understood.
	ErrRecord = errors.New("annotation " + AnnotationRecord + " is invalid: restore it, or remove it together with the entries that it lists")
)

// Change is what is to be written to the controller's ConfigMap.
type Change struct {
	// Text is the list of plugins; empty where the key is to go.
	Text string
	// Record is the value of AnnotationRecord; empty where it is to go.
	Record string
}

// Of is what the ConfigMap has now, which is nil where there is none.
func Of(live *corev1.ConfigMap) Change {
	if live == nil {
		return Change{}
	}
	return Change{Text: live.Data[facts.PluginsKey], Record: live.Annotations[AnnotationRecord]}
}

// Register puts entries into the list, and notes what was there before. It fails with [ErrForeign] where somebody else
// has registered another file for a router, unless it is to replace that. An entry that is as it should be and not noted
// stays somebody else's.
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

// Unregister takes away what Register has put into the list, and brings back what was there before.
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

// Registered are the names of the routers that Register has put into the list.
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

// recordOf reads a record.
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

// textOf is the element of a name as a list of its own, in YAML; empty where there is none.
func textOf(list *yaml.Node, name string) (string, error) {
	for _, element := range list.Content {
		if found := valueOf(element, "name"); found != nil && found.Value == name {
			return format(&yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{element}})
		}
	}
	return "", nil
}

// write is the change to a list and a record. Where the list means what it did, every byte of it stays.
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
