package port

import (
	"net/http"
	"testing"
)

// TestRestart connects while no server is on a port: the next server answers.
func TestRestart(t *testing.T) {
	port := Open(t)
	for _, status := range []int{http.StatusAccepted, http.StatusNoContent} {
		statuses, errs := make(chan int, 1), make(chan error, 1)
		go func() {
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+port.Address(), http.NoBody)
			response, err := client.Do(request)
			if err == nil {
				err = response.Body.Close()
				statuses <- response.StatusCode
			}
			errs <- err
		}()
		server := &http.Server{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }),
		}
		listener := port.Listen(t)
		go func() { _ = server.Serve(listener) }()
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
		if got := <-statuses; got != status {
			t.Errorf("status %d, want %d", got, status)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}
}
