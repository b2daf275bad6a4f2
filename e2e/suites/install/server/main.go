// Command server serves a folder over HTTPS, like the mirror of a site without internet access.
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
	server := http.Server{Addr: ":8443", Handler: http.FileServer(http.Dir(*folder)), ReadHeaderTimeout: 5 * time.Second}
	fmt.Fprintln(os.Stderr, server.ListenAndServeTLS(*certificate, *key))
	os.Exit(1)
}
