/** A moment as the API reads it where it wants six digits behind the point, no less (meta/v1 MicroTime). */
export function toMicroTime(date: Date): string {
  return date.toISOString().replace('Z', '000Z');
}
