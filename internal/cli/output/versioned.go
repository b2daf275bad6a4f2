package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// APIVersion is the version of the objects that commands print. Fields are only added within a version.
const APIVersion = "cli.http.kedify.io/v1"

// errNoObject reports a value that is no JSON object.
var errNoObject = errors.New("is no JSON object")

// Marshal returns object as compact JSON with the fields apiVersion and kind in front.
func Marshal(kind string, object any) ([]byte, error) {
	body, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	rest, isObject := bytes.CutPrefix(body, []byte("{"))
	if !isObject {
		return nil, fmt.Errorf("%s %w: %.40s", kind, errNoObject, body)
	}
	head := fmt.Sprintf(`{"apiVersion":%q,"kind":%q`, APIVersion, kind)
	if !bytes.Equal(rest, []byte("}")) {
		head += ","
	}
	return append([]byte(head), rest...), nil
}

// Print prints an object as indented JSON or as YAML.
func Print(out io.Writer, format Format, kind string, object any) error {
	body, err := Marshal(kind, object)
	if err != nil {
		return err
	}
	if format == YAML {
		if body, err = yaml.JSONToYAML(body); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		_, err = out.Write(body)
		return err
	}
	var text bytes.Buffer
	if err := json.Indent(&text, body, "", "  "); err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	text.WriteByte('\n')
	_, err = out.Write(text.Bytes())
	return err
}

// PrintLine prints an object as one line of JSON (https://jsonlines.org).
func PrintLine(out io.Writer, kind string, object any) error {
	body, err := Marshal(kind, object)
	if err != nil {
		return err
	}
	_, err = out.Write(append(body, '\n'))
	return err
}
