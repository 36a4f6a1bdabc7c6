/** How many objects a list asks for at once: as many as answers have room for. */

/** An object has at most 1.5 MiB: from 500 of them to one takes three answers that are too long. */
const shrinkFactor = 8;

/** It grows by so much at most, and only as far as objects like the last ones fill half of an answer. */
const growFactor = 2;

/** Kept from one list to the next. Objects that are too large for one page are listed by smaller ones, down to one object. */
export class PageSize {
  readonly #most: number | null;
  /** Above it a page took too long. */
  #ceiling = Infinity;
  readonly #characters: number;
  #size: number | null;

  /** `page` and `characters` are those of `AnswerLimits`. */
  constructor({ page, characters }: { readonly page: number | null; readonly characters: number }) {
    this.#most = page;
    this.#characters = characters;
    this.#size = page;
  }

  /** The objects to ask for now; null for all. */
  get value(): number | null {
    return this.#size;
  }

  /** An answer was too long, or took too long: how long the next one takes nobody knows. Answers whether fewer can be asked for. */
  shrink({ isLate }: { readonly isLate: boolean }): boolean {
    if (this.#size === null || this.#size === 1) return false;
    this.#size = Math.max(1, Math.floor(this.#size / shrinkFactor));
    if (isLate) this.#ceiling = this.#size;
    return true;
  }

  /** An answer came with so many objects, of so many characters together. */
  grow(objects: number, characters: number): void {
    if (this.#size === null || this.#most === null) return;
    const mean = characters / Math.max(1, objects);
    const fitting = Math.max(1, Math.floor(this.#characters / 2 / mean));
    this.#size = Math.min(this.#most, fitting, this.#ceiling, this.#size * growFactor);
  }

  /** A whole list has come: the next one may try more. */
  finish(): void {
    this.#ceiling *= growFactor;
  }
}
