package kube

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDecodePage reads pages as API servers write them, and others.
func TestDecodePage(t *testing.T) {
	t.Parallel()
	errDecode := errors.New("unreadable")
	for name, c := range map[string]struct {
		page  string
		items []string
		meta  metav1.ListMeta
		fails bool
	}{
		"two objects": {
			`{"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "7", "continue": "a"}, "items": [{"a": 1}, {"b": [2]}]}`,
			[]string{`{"a": 1}`, `{"b": [2]}`},
			metav1.ListMeta{ResourceVersion: "7", Continue: "a"},
			false,
		},
		"the objects first":                {`{"items": [{}], "metadata": {"resourceVersion": "7"}}`, []string{"{}"}, metav1.ListMeta{ResourceVersion: "7"}, false},
		"no objects":                       {`{"metadata": {"resourceVersion": "7"}, "items": []}`, nil, metav1.ListMeta{ResourceVersion: "7"}, false},
		"no list":                          {`[]`, nil, metav1.ListMeta{}, true},
		"no array":                         {`{"items": {}}`, nil, metav1.ListMeta{}, true},
		"cut in an object":                 {`{"items": [{"a": 1}, {"b"`, []string{`{"a": 1}`}, metav1.ListMeta{}, true},
		"cut after one":                    {`{"items": [{"a": 1}`, []string{`{"a": 1}`}, metav1.ListMeta{}, true},
		"cut at the end":                   {`{"items": []`, nil, metav1.ListMeta{}, true},
		"empty":                            {``, nil, metav1.ListMeta{}, true},
		"an object that cannot be decoded": {`{"items": ["bad", {}]}`, []string{`"bad"`}, metav1.ListMeta{}, true},
	} {
		var items []string
		meta, err := DecodePage(strings.NewReader(c.page), func(item []byte) error {
			items = append(items, string(item))
			if string(item) == `"bad"` {
				return errDecode
			}
			return nil
		})
		if (err != nil) != c.fails {
			t.Errorf("%s: error %v", name, err)
		}
		if diff := cmp.Diff(c.items, items); diff != "" {
			t.Errorf("%s: objects (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(c.meta, meta); !c.fails && diff != "" {
			t.Errorf("%s: metadata (-want +got):\n%s", name, diff)
		}
	}
}

// TestDecodePageObjectByObject sends an object only after the one before it was decoded.
func TestDecodePageObjectByObject(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe()
	decoded := make(chan struct{})
	go func() {
		_, _ = io.WriteString(writer, `{"items": [`)
		for i := range 3 {
			_, _ = io.WriteString(writer, strings.Repeat(" ,", min(i, 1))+`{"name": "a"}`)
			<-decoded
		}
		_, _ = io.WriteString(writer, `]}`)
		_ = writer.Close()
	}()
	count := 0
	if _, err := DecodePage(reader, func(item []byte) error {
		count++
		decoded <- struct{}{}
		return json.Unmarshal(item, new(struct{}))
	}); err != nil || count != 3 {
		t.Errorf("%d objects were decoded, want 3: %v", count, err)
	}
}
