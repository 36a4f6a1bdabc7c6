const dayMinutes = 24 * 60;

/** How long something has been so: `0.3 s`, `12 s`, `8m33s`, `2h05m`, `3 d`. */
export function formatAge(ms: number): string {
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  const pad = (count: number) => String(count).padStart(2, '0');
  if (minutes >= dayMinutes) return `${Math.floor(minutes / dayMinutes)} d`;
  return minutes < 60
    ? `${minutes}m${pad(seconds % 60)}s`
    : `${Math.floor(minutes / 60)}h${pad(minutes % 60)}m`;
}
