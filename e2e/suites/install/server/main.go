// Command server serves a folder over HTTPS, like the mirror of a site without internet access. It prints each request.
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"
)

func main() {
	folder := flag.String("folder", ".", "what is served")
	certificate := flag.String("certificate", "", "file with the certificate")
	key := flag.String("key", "", "file with its key")
	flag.Parse()
	files := http.FileServer(http.Dir(*folder))
	server := http.Server{
		Addr: ":8443", ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(os.Stdout, r.Method, r.URL.Path)
			files.ServeHTTP(w, r)
		}),
	}
	fmt.Fprintln(os.Stderr, server.ListenAndServeTLS(*certificate, *key))
	os.Exit(1)
}
