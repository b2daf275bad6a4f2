package images

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestRequireCredentials: only images of the private registry need credentials.
func TestRequireCredentials(t *testing.T) {
	handler := RequireCredentials(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, test := range []struct {
		name, target, user, password string
		want                         int
	}{
		{"another registry", "/v2/team/app/manifests/one?ns=registry.example.com", "", "", http.StatusOK},
		{"no registry", "/v2/team/app/manifests/one", "", "", http.StatusOK},
		{"no credentials", "/v2/team/app/manifests/one?ns=private.example.com", "", "", http.StatusUnauthorized},
		{"a wrong password", "/v2/team/app/blobs/sha256:0?ns=private.example.com", "puller", "other", http.StatusUnauthorized},
		{"the credentials", "/v2/team/app/blobs/sha256:0?ns=private.example.com", "puller", "not-a-secret", http.StatusOK},
	} {
		t.Run(test.name, func(t *testing.T) {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, test.target, http.NoBody)
			if test.user != "" {
				request.SetBasicAuth(test.user, test.password)
			}
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, request)
			if recorder.Code != test.want {
				t.Errorf("status %d, want %d", recorder.Code, test.want)
			}
		})
	}
}
