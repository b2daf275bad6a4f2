package routertest

import (
	"encoding/json"
	"net/http"
	"slices"
	"sort"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// change is an event for watches.
type change struct {
	version  int
	resource string // the watches that receive it, e.g. of httproutes; empty for all
	event    metav1.WatchEvent
}

// watched is an object in watch events.
type watched interface {
	metav1.Object
	runtime.Object
}

// record gives object the next resource version and sends its current state to the watches of resource.
func (f *server) record(event, resource string, object watched) {
	f.version++
	object.SetResourceVersion(strconv.Itoa(f.version))
	f.publish(change{f.version, resource, metav1.WatchEvent{
		Type:   event,
		Object: runtime.RawExtension{Object: object.DeepCopyObject()},
	}})
}

// publish sends a change to the watches.
func (f *server) publish(next change) {
	f.history = append(f.history, next)
	close(f.changed)
	f.changed = make(chan struct{})
}

// Expire ends all watches with 410 Gone, like an API server that no longer has the events since their resource version.
// New watches work.
func (f *server) Expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	status := apierrors.NewResourceExpired("too old resource version").Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	f.version++
	f.history = nil
	f.publish(change{version: f.version, event: metav1.WatchEvent{
		Type:   "ERROR",
		Object: runtime.RawExtension{Object: &status},
	}})
}

// HoldEvents stops all watches from sending events.
func (f *server) HoldEvents() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = true
}

// watch sends the changes of resource after the resource version of the request, until the client or the server ends
// it.
func (f *server) watch(w http.ResponseWriter, r *http.Request, resource string) {
	after, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if err != nil {
		respondError(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flush, encoder := http.NewResponseController(w), json.NewEncoder(w)
	for {
		changes, changed := f.since(after)
		for _, change := range changes {
			if after = change.version; change.resource != resource && change.resource != "" {
				continue
			}
			if err := encoder.Encode(change.event); err != nil {
				return
			}
		}
		if err := flush.Flush(); err != nil {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-f.closed:
			return
		}
	}
}

// since returns the changes of all kinds after a version, and a channel that is closed at the next one.
func (f *server) since(version int) (changes []change, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.held {
		changes = slices.Clone(f.history[sort.Search(len(f.history),
			func(i int) bool { return f.history[i].version > version }):])
	}
	return changes, f.changed
}
