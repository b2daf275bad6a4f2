// Command wget requests a URL with the options of busybox' wget that the test of the chart uses. It exits with 1 if the
// answer is an error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "wget:", err)
		os.Exit(1)
	}
}

// run requests the URL that the arguments name, and writes the answer to a file.
func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("wget", flag.ContinueOnError)
	flags.Bool("q", false, "print no progress, which this program never does")
	timeout := flags.Int("T", 60, "time limit in `seconds`")
	file := flags.String("O", "", "`file` for the answer")
	header := flags.String("header", "", "additional `header`, as name: value")
	if err := flags.Parse(args); err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, flags.Arg(0), http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "Wget")
	if name, value, ok := strings.Cut(*header, ": "); ok && strings.EqualFold(name, "Host") {
		request.Host = value
	} else if ok {
		request.Header.Set(name, value)
	}
	client := &http.Client{Timeout: time.Duration(*timeout) * time.Second}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("server returned error: HTTP/1.1 %s", response.Status)
	}
	out, err := os.OpenFile(*file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, response.Body)
	return errors.Join(err, out.Close())
}
