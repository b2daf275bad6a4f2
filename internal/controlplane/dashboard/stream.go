package dashboard

import (
	"context"
	"errors"
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
	// eventEnd means that the client has to connect again, because it is too slow, its permissions are reviewed again or
	// could not be reviewed. It may have a reason.
	eventEnd = "end"
)

// watchObjects streams the overview.
func (p *Page) watchObjects(w http.ResponseWriter, r *http.Request, granted grant) {
	seen := newScope(granted, r.URL.Query().Get("namespace"))
	if err := seen.admit(r.Context()); err != nil {
		refuse(w, err)
		return
	}
	p.stream(w, r, newViewer(model.Key{}, granted.Name()), func(ctx context.Context, s *eventStream, next *update) error {
		if next.interceptors != nil {
			s.event(eventInterceptors, next.interceptors)
		}
		if !next.isWhole && len(next.rows)+len(next.gone) == 0 {
			return nil
		}
		if err := next.review(ctx, seen); err != nil {
			return err
		}
		s.event(eventObjects, next.encodeFor(seen))
		return nil
	})
}

// watchObject streams one object.
func (p *Page) watchObject(w http.ResponseWriter, r *http.Request, granted grant) {
	key := model.Key{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	if err := newScope(granted, key.Namespace).admit(r.Context()); err != nil {
		refuse(w, err)
		return
	}
	p.stream(w, r, newViewer(key, granted.Name()), func(ctx context.Context, s *eventStream, next *update) error {
		text, err := next.detailFor(ctx, granted, key.Namespace)
		switch {
		case errors.Is(err, errNoObject):
			s.event(eventGone, []byte("{}"))
			return nil
		case err != nil:
			return err
		}
		s.event(eventObject, text)
		return nil
	})
}

// stream sends updates as server-sent events until the client disconnects, is too slow, an update cannot be sent, or
// the Hub stops. The client then connects again.
func (p *Page) stream(
	w http.ResponseWriter, r *http.Request, v *viewer, send func(context.Context, *eventStream, *update) error,
) {
	if !p.hub.join(r.Context(), v) {
		refuse(w, errBusy)
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
				s.end("")
				return
			}
			if err := send(r.Context(), s, next); err != nil {
				s.end(reasonOf(err))
				return
			}
		case <-ticker.C:
			s.write(": \n\n")
		case <-end:
			s.end("")
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

// end writes eventEnd with a reason for people, "" for none.
func (s *eventStream) end(reason string) {
	s.event(eventEnd, encode(struct {
		Reason string `json:"reason,omitempty"`
	}{reason}))
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
