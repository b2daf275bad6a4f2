// Package truncate fits texts into the limits that the Kubernetes API sets on the messages of conditions and Events.
package truncate

import "strings"

// Text returns text if it has at most limit bytes. It cuts a longer text between two characters and ends it with "…",
// which counts towards limit.
func Text(text string, limit int) string {
	const mark = "…"
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len(mark)], "") + mark
}
