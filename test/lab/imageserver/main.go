// Command imageserver serves a folder over HTTP, with Content-Length, Range and
// If-Range, as the mirrors of distributions do.
package main

import (
	"fmt"
	"net/http"
	"os"
	"time"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: imageserver ADDRESS FOLDER")
		os.Exit(2)
	}
	server := &http.Server{
		Addr:              os.Args[1],
		Handler:           http.FileServer(http.Dir(os.Args[2])),
		ReadHeaderTimeout: 10 * time.Second,
	}
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
	os.Exit(1)
}
