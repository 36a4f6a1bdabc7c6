/** Answers the first SIGTERM or SIGINT from now on. */
export function waitForSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    // Not `once`: execa's clean-up ends the process when it finds itself the last listener (signal-exit 4).
    for (const name of ['SIGTERM', 'SIGINT'] as const) process.removeAllListeners(name).on(name, resolve);
  });
}
