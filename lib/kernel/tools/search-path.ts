/** Where distributions keep what an administrator runs: users' own PATH, cron's and su's often lack these. */
const administratorFolders = ['/usr/local/sbin', '/usr/sbin', '/sbin'];

/** Where they keep everything else. */
const ordinaryFolders = ['/usr/local/bin', '/usr/bin', '/bin'];

/**
 * Where tools are looked for, and what they are given as their own PATH: the folders of PATH, then those for
 * administrators that it lacks. A PATH without any of the system's ordinary folders was chosen by hand, and is taken
 * as it is; without any PATH, those are searched.
 */
export function toSearchPath(path = ''): string {
  const given = path.split(':').filter((folder) => folder !== '');
  const folders = given.length === 0 ? ordinaryFolders : given;
  const isChosen = !folders.some((folder) => ordinaryFolders.includes(folder));
  const lacking = isChosen ? [] : administratorFolders.filter((folder) => !folders.includes(folder));
  return [...folders, ...lacking].join(':');
}

/** What every tool is started with beside this process's own environment. */
export function toolEnvironment(): Readonly<Record<string, string>> {
  return { LC_ALL: 'C', PATH: toSearchPath(process.env['PATH']) };
}
