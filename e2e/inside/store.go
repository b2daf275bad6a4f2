package inside

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// ErrGap means that the store has compacted versions that were not read yet.
var ErrGap = errors.New("versions are missing")

// reconnectPause is the time between two attempts to reach an unavailable store.
const reconnectPause = 100 * time.Millisecond

// storeURL is the client URL of etcd in the cluster's network (https://etcd.io/docs/v3.6/op-guide/configuration/,
// --listen-client-urls).
const storeURL = "http://127.0.0.1:2379"

// Version is a stored version of a key.
type Version struct {
	// Revision is the store's revision of the write. It is also the object's resourceVersion.
	Revision int64
	// Value is the written value; nil if the key was deleted.
	Value []byte
	// Seen is when this process read it.
	Seen time.Time
}

// Store reads the cluster's etcd.
//
// A watch of the API server that breaks off, for example because the API server dies, resumes with the present state.
// It misses the versions in between. etcd keeps every version for minutes. It sends all of them, in order, to a watch
// that resumes from a revision (https://etcd.io/docs/v3.6/learning/api/#watch-api).
type Store struct {
	client *http.Client
	url    string
}

// Store returns the cluster's store.
func (c *Cluster) Store() *Store {
	return &Store{client: &http.Client{Transport: c.Transport()}, url: storeURL}
}

// CustomResourceKey returns the key of a custom resource, which the API server stores as JSON.
func CustomResourceKey(group, resource, namespace, name string) string {
	return "/registry/" + group + "/" + resource + "/" + namespace + "/" + name
}

// Follow calls each with the present version of a key, then with every later version in order. A missing key is a
// version without a value. It reconnects to the store and returns when ctx ends, or with ErrGap.
func (s *Store) Follow(ctx context.Context, key string, receive func(Version)) error {
	var next int64
	for {
		err := s.follow(ctx, key, &next, receive)
		if errors.Is(err, ErrGap) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(reconnectPause): // the store is unavailable or back: see
		}
	}
}

// follow is Follow on one connection. It starts at revision *next, which it updates; 0 is the present one.
func (s *Store) follow(ctx context.Context, key string, next *int64, receive func(Version)) error {
	if *next == 0 {
		present, revision, err := s.present(ctx, key)
		if err != nil {
			return err
		}
		receive(present)
		*next = revision + 1
	}
	body, err := s.post(ctx, "/v3/watch", map[string]any{
		"create_request": map[string]any{"key": []byte(key), "start_revision": strconv.FormatInt(*next, 10)},
	})
	if err != nil {
		return err
	}
	defer body.Close()
	return decodeEvents(body, next, receive)
}

// watchResponse is a message of a watch. etcd encodes 64-bit integers as JSON strings.
type watchResponse struct {
	Result struct {
		CompactRevision int64 `json:"compact_revision,string"`
		Events          []struct {
			Type string `json:"type"`
			KV   pair   `json:"kv"`
		} `json:"events"`
	} `json:"result"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// pair is a key with its value.
type pair struct {
	ModRevision int64  `json:"mod_revision,string"`
	Value       []byte `json:"value"`
}

// decodeEvents reads the messages of a watch until its end.
func decodeEvents(body io.Reader, next *int64, receive func(Version)) error {
	decoder := json.NewDecoder(body)
	for {
		var message watchResponse
		if err := decoder.Decode(&message); err != nil {
			return fmt.Errorf("read the watch: %w", err)
		}
		switch {
		case message.Error != nil:
			return fmt.Errorf("watch the store: %s", message.Error.Message)
		case message.Result.CompactRevision > 0:
			return fmt.Errorf("%w: the store begins at revision %d, wanted is %d", ErrGap, message.Result.CompactRevision, *next)
		}
		seen := time.Now()
		for _, event := range message.Result.Events {
			version := Version{Revision: event.KV.ModRevision, Value: event.KV.Value, Seen: seen}
			if event.Type == "DELETE" {
				version.Value = nil
			}
			receive(version)
			*next = version.Revision + 1
		}
	}
}

// present returns the present version of a key and the store's revision.
func (s *Store) present(ctx context.Context, key string) (Version, int64, error) {
	body, err := s.post(ctx, "/v3/kv/range", map[string]any{"key": []byte(key)})
	if err != nil {
		return Version{}, 0, err
	}
	defer body.Close()
	var response struct {
		Header struct {
			Revision int64 `json:"revision,string"`
		} `json:"header"`
		KVs []pair `json:"kvs"`
	}
	if err := json.NewDecoder(body).Decode(&response); err != nil {
		return Version{}, 0, fmt.Errorf("read %s from the store: %w", key, err)
	}
	version := Version{Seen: time.Now()}
	if len(response.KVs) > 0 {
		version.Revision, version.Value = response.KVs[0].ModRevision, response.KVs[0].Value
	}
	return version, response.Header.Revision, nil
}

// post sends a request to etcd's JSON gateway (https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway/).
func (s *Store) post(ctx context.Context, path string, message any) (io.ReadCloser, error) {
	raw, err := json.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("ask the store: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("ask the store: %w", err)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the store: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("the store answered %s with %s", path, response.Status), response.Body.Close())
	}
	return response.Body, nil
}
