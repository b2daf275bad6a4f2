package dashboard

import (
	"bytes"
	"sync"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// queueLength is how many updates a viewer may be behind.
const queueLength = 4

// viewer is a stream, or a request that waits for one update.
type viewer struct {
	// object is the object that it shows, the zero Key for the overview.
	object model.Key
	// updates receives the updates. It is closed when the viewer is too slow, or the Hub stops.
	updates chan *update
	close   func() // closes updates, once
	// sent is the last update of the object, so that it receives each once.
	sent *update
}

// newViewer returns a viewer of an object, or of the overview for the zero Key.
func newViewer(object model.Key) *viewer {
	updates := make(chan *update, queueLength)
	return &viewer{object: object, updates: updates, close: sync.OnceFunc(func() { close(updates) })}
}

// send sends an update, and reports whether the viewer is fast enough. It never waits.
func (v *viewer) send(next *update) bool {
	select {
	case v.updates <- next:
		return true
	default:
		v.close()
		return false
	}
}

// update is one update. All viewers share it, so it is not modified.
type update struct {
	// isWhole means that rows contains all objects.
	isWhole bool
	// rows are the changed objects as JSON, in no order, and gone are the deleted ones.
	rows []row
	gone []model.Key
	// interceptors is Interceptors as JSON, nil if they are unchanged.
	interceptors []byte
	// detail is a view.Detail as JSON, and brief the same without the workload. They are nil if the object does not exist.
	detail, brief []byte

	once sync.Once
	all  []byte // the result of encodeAll
}

// row is one object as JSON.
type row struct {
	key  model.Key
	text []byte
}

// encodeAll returns the data of the event for viewers of all namespaces. It is encoded once.
func (u *update) encodeAll() []byte {
	u.once.Do(func() { u.all = u.encode(func(string) bool { return true }) })
	return u.all
}

// encode returns the data of the event for viewers of some namespaces.
func (u *update) encode(mayRead func(namespace string) bool) []byte {
	const rowBytes = 300
	buffer := bytes.NewBuffer(make([]byte, 0, rowBytes*len(u.rows)))
	buffer.WriteString(`{"whole":`)
	if u.isWhole {
		buffer.WriteString(`true`)
	} else {
		buffer.WriteString(`false`)
	}
	buffer.WriteString(`,"objects":[`)
	separator := ""
	for _, one := range u.rows {
		if mayRead(one.key.Namespace) {
			buffer.WriteString(separator)
			buffer.Write(one.text)
			separator = ","
		}
	}
	buffer.WriteString(`],"gone":[`)
	separator = ""
	for _, key := range u.gone {
		if mayRead(key.Namespace) {
			buffer.WriteString(separator + `"` + key.String() + `"`) // Names of objects need no escapes.
			separator = ","
		}
	}
	buffer.WriteString(`]}`)
	return buffer.Bytes()
}
