// Both ends of scripts/bench datapath, as cheap as they can be made without a kernel module: what is measured is the
// way between them. `datapath serve` answers like an apiserver that has nothing to do, `datapath load` asks and
// measures. Go, because a client of Node.js takes longer than the way.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "datapath:", err)
		os.Exit(1)
	}
}

func run(words []string) error {
	// Collecting garbage is no part of the way.
	debug.SetGCPercent(400)
	if len(words) > 0 && words[0] == "serve" {
		return runServe(words[1:])
	}
	if len(words) > 0 && words[0] == "load" {
		return runLoad(words[1:])
	}
	return fmt.Errorf("there is serve and load")
}

func runServe(words []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	address := flags.String("listen", "", "address and port")
	name := flags.String("name", "", "what answers name the server by")
	certificate := flags.String("certificate", "", "file")
	key := flags.String("key", "", "file")
	if err := flags.Parse(words); err != nil {
		return err
	}
	return serve(*address, *name, *certificate, *key)
}

func runLoad(words []string) error {
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	targets := flags.String("targets", "", "addresses with ports, by commas; each connection goes to the next one")
	isNew := flags.Bool("new", false, "a connection for each request")
	isTLS := flags.Bool("tls", false, "TLS")
	clients := flags.Int("clients", 1, "how many ask at the same time")
	warmUp := flags.Duration("warm-up", 0, "before what is measured")
	window := flags.Duration("window", time.Second, "what is measured")
	watched := flags.String("watch", "", "NAME=PID,…: processes whose time and memory are reported")
	if err := flags.Parse(words); err != nil {
		return err
	}
	report, err := load(task{
		targets: strings.Split(*targets, ","), isNew: *isNew, isTLS: *isTLS, clients: *clients,
		warmUp: *warmUp, window: *window, watched: *watched,
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}
