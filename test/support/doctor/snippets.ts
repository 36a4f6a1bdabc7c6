/** A host on which somebody types. */
export interface TypedHost {
  /** Runs a script; rejects when it fails. */
  readonly shell: (script: string) => Promise<string>;
}

/** A filter that makes of a printed keepalived.conf one whose author knows no agent. */
export const leaveAgentOut = "sed '/track_file/,/}/d; /vrrp_notify_fifo/d'";

/** Inserts into keepalived.conf what the comments of a remedy say, where they say it, as a person would. */
export async function insertSnippets(
  host: TypedHost,
  file: string,
  remedy: readonly string[],
): Promise<void> {
  let text = await host.shell(`cat ${file}`);
  for (const [index, line] of remedy.entries()) {
    const snippet = takeSnippet(remedy.slice(index + 1));
    if (/^# in .* before the first vrrp_instance:$/.test(line))
      text = text.replace(/^vrrp_instance /m, `${snippet}$&`);
    const name = /^# in vrrp_instance (\S+), /.exec(line)?.[1];
    if (name !== undefined) text = text.replace(`vrrp_instance ${name} {\n`, `$&${snippet}`);
  }
  await host.shell(`cat >${file} <<'END'\n${text}\nEND\n`);
}

/** The lines that are set off. */
function takeSnippet(lines: readonly string[]): string {
  const end = lines.findIndex((line) => !line.startsWith('#   '));
  return lines
    .slice(0, end)
    .map((line) => `${line.slice(4)}\n`)
    .join('');
}
