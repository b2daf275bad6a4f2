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

// change is what a watch tells.
type change struct {
	version  int
	resource string // whose watches are told, such as httproutes; empty for those of every kind
	event    metav1.WatchEvent
}

// watched is what watches tell of.
type watched interface {
	metav1.Object
	runtime.Object
}

// record gives object the next resource version and tells watches of resource about it as it is now.
func (f *frame) record(event, resource string, object watched) {
	f.version++
	object.SetResourceVersion(strconv.Itoa(f.version))
	f.tell(change{f.version, resource, metav1.WatchEvent{Type: event, Object: runtime.RawExtension{Object: object.DeepCopyObject()}}})
}

func (f *frame) tell(news change) {
	f.history = append(f.history, news)
	close(f.changed)
	f.changed = make(chan struct{})
}

// Expire ends every watch as the API server does when it has forgotten the events since then: with 410 Gone. New ones go on.
func (f *frame) Expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	status := apierrors.NewResourceExpired("too old resource version").Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	f.version++
	f.history = nil
	f.tell(change{version: f.version, event: metav1.WatchEvent{Type: "ERROR", Object: runtime.RawExtension{Object: &status}}})
}

// HoldEvents keeps watches from telling anything more.
func (f *frame) HoldEvents() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = true
}

// watch tells changes of resource after the resource version that the request names, until either side goes away.
func (f *frame) watch(w http.ResponseWriter, r *http.Request, resource string) {
	after, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if err != nil {
		answer(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flush, encoder := http.NewResponseController(w), json.NewEncoder(w)
	for {
		news, changed := f.since(after)
		for _, change := range news {
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

// since are the changes after a version, of every kind, and what is closed at the next one.
func (f *frame) since(version int) (news []change, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.held {
		news = slices.Clone(f.history[sort.Search(len(f.history), func(i int) bool { return f.history[i].version > version }):])
	}
	return news, f.changed
}
