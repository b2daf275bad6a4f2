package main

import (
	"encoding/json"
	"io"

	"sigs.k8s.io/yaml"
)

// printObject prints an object as JSON or YAML.
func printObject(out io.Writer, format outputFormat, object any) error {
	text, err := json.MarshalIndent(object, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if format == formatYAML {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return err
		}
	}
	_, err = out.Write(text)
	return err
}
