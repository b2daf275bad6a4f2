package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errNoList means that a document is not a list of objects.
var errNoList = errors.New("not a list of objects")

// DecodePage reads one page of a list in JSON, and calls decode for each object, which must not retain it. Only one
// object is in memory at a time: a tenant can make each as large as the API server accepts, of which decode mostly keeps
// a small part.
func DecodePage(body io.Reader, decode func([]byte) error) (page metav1.ListMeta, err error) {
	tokens := json.NewDecoder(body)
	if err := expect(tokens, json.Delim('{')); err != nil {
		return page, err
	}
	var item json.RawMessage
	for tokens.More() {
		key, err := tokens.Token()
		switch {
		case err != nil:
		case key == "metadata":
			err = tokens.Decode(&page)
		case key == "items":
			err = decodeItems(tokens, &item, decode)
		default:
			err = tokens.Decode(&item)
		}
		if err != nil {
			return page, fmt.Errorf("decode a list: %w", err)
		}
	}
	return page, expect(tokens, json.Delim('}'))
}

// decodeItems calls decode for each element of an array. It reads them into item.
func decodeItems(tokens *json.Decoder, item *json.RawMessage, decode func([]byte) error) error {
	if err := expect(tokens, json.Delim('[')); err != nil {
		return err
	}
	for tokens.More() {
		if err := tokens.Decode(item); err != nil {
			return err
		}
		if err := decode(*item); err != nil {
			return err
		}
	}
	return expect(tokens, json.Delim(']'))
}

// expect reads a token.
func expect(tokens *json.Decoder, want json.Delim) error {
	got, err := tokens.Token()
	if err == nil && got != want {
		err = fmt.Errorf("%w: %v instead of %v", errNoList, got, want)
	}
	return err
}
