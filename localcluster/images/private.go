package images

import "net/http"

// The images of PrivateRegistry need PrivateUser and PrivatePassword, which a Pod has from imagePullSecrets.
const (
	PrivateRegistry = "private.example.com"
	PrivateUser     = "puller"
	PrivatePassword = "not-a-secret"
)

// RequireCredentials returns a handler that answers 401 to requests for images of PrivateRegistry without its
// credentials. A registry that serves the images of other registries finds the registry of an image in parameter ns:
// https://github.com/containerd/containerd/blob/main/docs/hosts.md#registry-host-namespace
func RequireCredentials(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("ns") == PrivateRegistry {
			if user, password, _ := r.BasicAuth(); user != PrivateUser || password != PrivatePassword {
				w.Header().Set("WWW-Authenticate", `Basic realm="`+PrivateRegistry+`"`)
				http.Error(w, "the credentials of "+PrivateRegistry+" are missing or wrong", http.StatusUnauthorized)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
