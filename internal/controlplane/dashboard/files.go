package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
)

// MaxBytes is the maximum size of all files of the page together.
const MaxBytes = 200_000

// files are the files of the page. They contain nothing of the cluster.
//
//go:embed web
var files embed.FS

// contentTypes are the media types of the files, by their ending.
func contentTypes() map[string]string {
	return map[string]string{
		".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
		".svg": "image/svg+xml", ".json": "application/json",
	}
}

// addFiles adds the files, which need no token. All their links are relative, so the page works behind a path prefix.
func (p *Page) addFiles() {
	const folder, index, description = "web", "index.html", "openapi.json"
	entries, err := files.ReadDir(folder)
	if err != nil {
		return // The folder is embedded.
	}
	for _, entry := range entries {
		text, err := files.ReadFile(path.Join(folder, entry.Name()))
		if err != nil {
			continue
		}
		serve := serveFile(text, contentTypes()[path.Ext(entry.Name())])
		switch entry.Name() {
		case index:
			p.mux.HandleFunc("GET /{$}", serve)
		case description:
			p.mux.HandleFunc("GET /api/v1/"+description, serve)
		default:
			p.mux.HandleFunc("GET /"+entry.Name(), serve)
		}
	}
}

// serveFile serves a file, which the browser keeps until it changes.
func serveFile(text []byte, contentType string) http.HandlerFunc {
	sum := sha256.Sum256(text)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(text) // The client has disconnected.
	}
}
