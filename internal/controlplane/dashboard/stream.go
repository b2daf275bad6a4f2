package dashboard

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// The events of a stream.
const (
	// eventObjects has the changed rows, or all of them.
	eventObjects = "objects"
	// eventInterceptors has Interceptors.
	eventInterceptors = "interceptors"
	// eventObject has a view.Detail.
	eventObject = "object"
	// eventGone means that the object does not exist.
	eventGone = "gone"
	// eventEnd means that the client has to connect again, because it is too slow or its permissions are reviewed again.
	eventEnd = "end"
)

// watchObjects streams the overview.
func (p *Page) watchObjects(w http.ResponseWriter, r *http.Request, granted grant) {
	visible, isAllowed := newScope(r.Context(), granted, r.URL.Query().Get("namespace"))
	if !isAllowed {
		http.Error(w, "you may not list the httpscaledobjects of this namespace", http.StatusForbidden)
		return
	}
	p.stream(w, r, model.Key{}, func(_ context.Context, s *eventStream, next *update) {
		if next.interceptors != nil {
			s.event(eventInterceptors, next.interceptors)
		}
		switch {
		case !next.isWhole && len(next.rows)+len(next.gone) == 0:
		case visible.isAll:
			s.event(eventObjects, next.encodeAll())
		default:
			s.event(eventObjects, next.encode(visible.mayRead))
		}
	})
}

// watchObject streams one object.
func (p *Page) watchObject(w http.ResponseWriter, r *http.Request, granted grant) {
	key := model.Key{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	if !granted.MayRead(r.Context(), key.Namespace) {
		http.Error(w, "you may not list the httpscaledobjects of this namespace", http.StatusForbidden)
		return
	}
	p.stream(w, r, key, func(ctx context.Context, s *eventStream, next *update) {
		if next.detail == nil {
			s.event(eventGone, []byte("{}"))
			return
		}
		s.event(eventObject, next.detailFor(ctx, granted, key.Namespace))
	})
}

// stream sends updates as server-sent events until the client disconnects, is too slow, or the Hub stops. The client
// then connects again.
func (p *Page) stream(
	w http.ResponseWriter, r *http.Request, key model.Key, send func(context.Context, *eventStream, *update),
) {
	v := newViewer(key)
	if !p.hub.join(r.Context(), v) {
		http.Error(w, "the interceptor is shutting down: try again", http.StatusServiceUnavailable)
		return
	}
	defer p.hub.leave(v)
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // for NGINX in front
	s := &eventStream{w: w, control: http.NewResponseController(w)}
	_ = s.control.SetReadDeadline(time.Time{}) // That of the server is for requests without a stream.
	var end <-chan time.Time
	if p.maxStream > 0 {
		end = time.After(p.maxStream)
	}
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for s.err == nil {
		select {
		case next, isOpen := <-v.updates:
			if !isOpen {
				s.event(eventEnd, []byte("{}"))
				return
			}
			send(r.Context(), s, next)
		case <-ticker.C:
			s.write(": \n\n")
		case <-end:
			s.event(eventEnd, []byte("{}"))
			return
		case <-r.Context().Done():
			return
		}
	}
}

// eventStream writes server-sent events. After an error it writes nothing.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	err     error
}

// event writes an event. data is JSON, so it has no line break.
func (s *eventStream) event(name string, data []byte) {
	s.write("event: "+name+"\ndata: ", data, "\n\n")
}

// write writes texts and sends them.
func (s *eventStream) write(texts ...any) {
	if s.err == nil {
		s.err = s.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	}
	for _, text := range texts {
		if s.err != nil {
			return
		}
		switch text := text.(type) {
		case []byte:
			_, s.err = s.w.Write(text)
		case string:
			_, s.err = io.WriteString(s.w, text)
		}
	}
	if s.err == nil {
		s.err = s.control.Flush()
	}
}
